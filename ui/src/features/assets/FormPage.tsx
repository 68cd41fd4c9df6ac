/** Page that creates, edits or copies a compute resource or template. */
import { useState } from "react";
import { useParams } from "wouter";
import { isProblem } from "../../api/problems";
import { useScopes } from "../../api/scopes";
import { ConflictDialog } from "../../forms/ConflictDialog";
import { Loading } from "../../shell/Loading";
import { withNotice } from "../../shell/notices";
import { ProblemPage } from "../../shell/Problem";
import { useNavigate } from "../../shell/useNavigate";
import { AssetForm } from "./AssetForm";
import { type AssetDraft, readAsset, writeAsset } from "./drafts";
import { type Asset, type AssetKind, loadAsset, useAsset, useCreate, useEdit } from "./requests";

interface Props {
  kind: AssetKind;
  purpose: "create" | "edit" | "copy";
  hasTypes?: boolean;
}

export function FormPage({ kind, purpose, hasTypes = false }: Props) {
  const { name } = useParams<{ name?: string }>();
  const original = useAsset(kind, name);
  const scopes = useScopes();
  const error = (!original.data && original.error) || (!scopes.data && scopes.error);
  if (error) return <ProblemPage error={error} onRetry={() => void scopes.refetch()} />;
  if (!scopes.data || (name && !original.data)) return <Loading />;
  const key = `${purpose} ${original.data?.id}`;
  return <Editor key={key} kind={kind} purpose={purpose} hasTypes={hasTypes} original={original.data} />;
}

function Editor({ kind, purpose, hasTypes, original }: Props & { hasTypes: boolean; original?: Asset }) {
  const navigate = useNavigate();
  // The version that the form edits. Saving must fail if someone else has changed the record since then.
  const [base, setBase] = useState(original);
  const [draft, setDraft] = useState<AssetDraft>(() => makeDraft(purpose, original));
  const creating = useCreate(kind);
  const editing = useEdit(kind);
  const isEdit = purpose === "edit" && base !== undefined;
  const saving = isEdit ? editing : creating;

  const leave = () => navigate(isEdit ? `${kind.path}/${base.name}` : kind.path);
  const save = (latest: Asset | undefined = base) => {
    const body = writeAsset(draft, { hasTypes });
    const done = withNotice(`${isEdit ? "Saved" : "Created"} ${body.name}`, () => navigate(kind.path));
    if (isEdit && latest) editing.mutate({ asset: latest, change: body }, done);
    else creating.mutate(body, done);
  };
  return (
    <>
      <AssetForm
        kind={kind}
        title={titleOf(kind, purpose, original)}
        submitLabel={isEdit ? "Save" : `Create ${kind.noun}`}
        hasTypes={hasTypes}
        draft={draft}
        onChange={(next) => {
          setDraft(next);
          // The error belongs to the previous draft.
          if (saving.error) saving.reset();
        }}
        onSave={() => save()}
        onCancel={leave}
        isSaving={saving.isPending}
        error={isProblem(saving.error, "changed") ? null : saving.error}
      />
      {isEdit && isProblem(saving.error, "changed") && (
        <ConflictDialog
          load={() => loadAsset(kind, base.id)}
          baseRevision={base.revision}
          compare={(theirs) => ({
            theirs: writeAsset(readAsset(theirs), { hasTypes }),
            mine: writeAsset(draft, { hasTypes }),
          })}
          onKeepEditing={saving.reset}
          onTakeTheirs={(theirs) => {
            setBase(theirs);
            setDraft(readAsset(theirs));
            saving.reset();
          }}
          onSaveMine={(theirs) => {
            setBase(theirs);
            save(theirs);
          }}
        />
      )}
    </>
  );
}

function makeDraft(purpose: Props["purpose"], original?: Asset): AssetDraft {
  const draft = readAsset(original);
  return purpose === "copy" ? { ...draft, name: `${draft.name}-copy` } : draft;
}

function titleOf(kind: AssetKind, purpose: Props["purpose"], original?: Asset): string {
  if (purpose === "create" || !original) return `New ${kind.noun}`;
  return purpose === "edit" ? `Edit ${original.name}` : `Copy of ${original.name}`;
}
