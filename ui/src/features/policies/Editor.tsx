/** Editor for one scope's policy, with a live preview of its impact. */
import { Anchor, Button, Group, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { useMay } from "../../api/currentUser";
import { type Finding, isProblem, violationsOf } from "../../api/problems";
import { ConflictDialog } from "../../forms/ConflictDialog";
import { Findings } from "../../forms/findings";
import { tryWriting } from "../../forms/requirements/drafts";
import type { Tree } from "../../forms/trees";
import { UnsavedChangesGuard } from "../../forms/UnsavedChangesGuard";
import { DangerButton } from "../../shell/actions";
import { notify } from "../../shell/notices";
import { Foot } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { useNavigate } from "../../shell/useNavigate";
import { DeletePolicyDialog } from "./DeletePolicyDialog";
import { findMistakes, type PolicyDraft, readPolicy, writePolicy } from "./drafts";
import { ImpactCard, summarizeImpact, withoutViolations } from "./ImpactCard";
import { PolicyForm } from "./PolicyForm";
import { PolicyLayout } from "./PolicyLayout";
import { type EffectivePolicy, loadPolicy, type PolicyRecord, useImpact, useSave } from "./requests";

const DEBOUNCE_MS = 350;

interface Props {
  scope: string;
  original: PolicyRecord | null;
  effective: EffectivePolicy;
}

export function Editor({ scope, original, effective }: Props) {
  const navigate = useNavigate();
  const may = useMay();
  // The version that the form edits. Saving must fail if someone else has changed the policy since then.
  const [base, setBase] = useState(original);
  const [draft, setDraft] = useState(() => readPolicy(original?.content));
  const [isDeleting, setDeleting] = useState(false);
  const { content, mistakes } = tryWrite(draft, base?.content);
  const [debounced] = useDebouncedValue(content && JSON.stringify(content), DEBOUNCE_MS);
  const { checkedContent, impact } = useLatestImpact(scope, debounced);
  const saving = useSave();
  const isConflict = isProblem(saving.error, "changed");
  const isDirty =
    JSON.stringify(content) !== JSON.stringify(writePolicy(readPolicy(base?.content), base?.content));

  const restart = (record: PolicyRecord | null) => {
    setBase(record);
    setDraft(readPolicy(record?.content));
    saving.reset();
  };
  const save = (latest: PolicyRecord | null = base) => {
    if (!content) return;
    const force = Boolean(latest?.managed_by);
    saving.mutate(
      { scope, original: latest, force, content },
      {
        onSuccess: (record) => {
          notify(`Saved policy for ${scope}`);
          setBase(record);
          void impact.refetch();
          // Keep anything that was typed during the request.
          setDraft((current) => (current === draft ? readPolicy(record.content) : current));
        },
      },
    );
  };
  const change = (next: PolicyDraft) => {
    setDraft(next);
    if (saving.isError) saving.reset();
  };
  const liveViolations = violationsOf(impact.error);
  const saveViolations = violationsOf(saving.error).filter(({ path }) =>
    liveViolations.every((other) => other.path !== path),
  );
  const findings = mistakes.length > 0 ? mistakes : [...liveViolations, ...saveViolations];
  const isCurrent = !impact.isFetching && JSON.stringify(content) === checkedContent;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <PolicyLayout
        scope={scope}
        policy={base}
        effective={effective}
        isDirty={isDirty}
        actions={base && <DangerButton onClick={() => setDeleting(true)}>Delete</DangerButton>}
        side={
          <ImpactCard
            impact={impact.error ? undefined : impact.data}
            errors={findings}
            error={withoutViolations(impact.error)}
            isCurrent={isCurrent}
          />
        }
        foot={
          <>
            {!isConflict && violationsOf(saving.error).length === 0 && <ProblemAlert error={saving.error} />}
            <Foot>
              <Text size="sm" c="dimmed" component="div">
                {findings.length > 0 ? (
                  <Anchor
                    href="#impact"
                    fz="inherit"
                    c="light-dark(var(--mantine-color-red-9), var(--mantine-color-red-4))"
                  >
                    {findings.length === 1 ? "1 error" : `${findings.length} errors`}
                  </Anchor>
                ) : (
                  impact.data && (
                    <Anchor href="#impact" fz="inherit" c="dimmed">
                      {summarizeImpact(impact.data)}
                    </Anchor>
                  )
                )}
              </Text>
              <Group gap="xs">
                <Button variant="default" disabled={!isDirty} onClick={() => restart(base)}>
                  Discard changes
                </Button>
                <Button type="submit" loading={saving.isPending} disabled={!isDirty}>
                  Save
                </Button>
              </Group>
            </Foot>
          </>
        }
      >
        <Findings findings={findings}>
          <PolicyForm
            draft={draft}
            onChange={change}
            mayLimitGpuMemory={effective.switches.gpu_memory_limits?.value === true}
            maySetWeight={may("editor", "platform")}
          />
        </Findings>
      </PolicyLayout>
      <UnsavedChangesGuard isDirty={isDirty} />
      {isDeleting && base && (
        <DeletePolicyDialog
          policy={base}
          force={Boolean(base.managed_by)}
          onClose={() => setDeleting(false)}
          onDeleted={() => navigate("/policies")}
        />
      )}
      {isConflict && content && (
        <ConflictDialog
          load={() => loadPolicy(scope)}
          baseRevision={base?.revision}
          compare={(theirs) => ({ theirs: theirs?.content ?? {}, mine: content })}
          onKeepEditing={saving.reset}
          onTakeTheirs={restart}
          onSaveMine={(theirs) => {
            setBase(theirs);
            save(theirs);
          }}
        />
      )}
    </form>
  );
}

/** Impact of the latest draft. Sends one request at a time, because each can take several seconds. */
function useLatestImpact(scope: string, draft: string | null) {
  const [checkedContent, setCheckedContent] = useState(draft);
  const impact = useImpact(scope, checkedContent ? JSON.parse(checkedContent) : null);
  useEffect(() => {
    if (!impact.isFetching) setCheckedContent(draft);
  }, [draft, impact.isFetching]);
  return { checkedContent, impact };
}

/** The content to send, or the errors that prevent sending it. */
function tryWrite(draft: PolicyDraft, original?: Tree): { content: Tree | null; mistakes: Finding[] } {
  const mistakes = findMistakes(draft);
  if (mistakes.length > 0) return { content: null, mistakes };
  const { body: content, errors: yamlErrors } = tryWriting("defaults", () => writePolicy(draft, original));
  return { content, mistakes: yamlErrors };
}
