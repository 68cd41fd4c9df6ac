/** Writes the policy of one scope: the draft, what the server says of it, and saving it. */

import { Anchor, Button, Group, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { type Finding, isProblem, violationsOf } from "../../api/problems";
import { ConflictDialog } from "../../forms/ConflictDialog";
import { Findings } from "../../forms/findings";
import { Leaving } from "../../forms/Leaving";
import { tryWriting } from "../../forms/requirements/drafts";
import type { Tree } from "../../forms/trees";
import { DangerButton } from "../../shell/actions";
import { notify } from "../../shell/notices";
import { Foot } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { useNavigate } from "../../shell/useNavigate";
import { DeleteDialog } from "./DeleteDialog";
import { findMistakes, type PolicyDraft, readPolicy, writePolicy } from "./drafts";
import { Frame } from "./Frame";
import { PolicyForm } from "./PolicyForm";
import { type EffectivePolicy, loadPolicy, type PolicyRecord, useSave, useVerdict } from "./requests";
import { otherThanMistakes, summarise, VerdictView } from "./VerdictView";

const PAUSE_MS = 350;

interface Props {
  scope: string;
  original: PolicyRecord | null;
  effective: EffectivePolicy;
}

export function Editor({ scope, original, effective }: Props) {
  const navigate = useNavigate();
  // What the form began with: others may change the record meanwhile, and saving must then be refused.
  const [read, setRead] = useState(original);
  const [draft, setDraft] = useState(() => readPolicy(original?.content));
  const [isDeleting, setDeleting] = useState(false);
  const { written, mistakes } = tryWrite(draft, read?.content);
  const [settled] = useDebouncedValue(written && JSON.stringify(written), PAUSE_MS);
  const { asked, verdict } = useLatestVerdict(scope, settled);
  const saving = useSave();
  const isConflict = isProblem(saving.error, "changed");
  const isDirty =
    JSON.stringify(written) !== JSON.stringify(writePolicy(readPolicy(read?.content), read?.content));

  const begin = (record: PolicyRecord | null) => {
    setRead(record);
    setDraft(readPolicy(record?.content));
    saving.reset();
  };
  const save = (over: PolicyRecord | null = read) => {
    if (!written) return;
    const force = Boolean(over?.managed_by);
    saving.mutate(
      { scope, read: over, force, content: written },
      {
        onSuccess: (record) => {
          notify(`Saved the policy of ${scope}`);
          setRead(record);
          void verdict.refetch();
          // Who typed on while it was saved goes on.
          setDraft((now) => (now === draft ? readPolicy(record.content) : now));
        },
      },
    );
  };
  const change = (next: PolicyDraft) => {
    setDraft(next);
    if (saving.isError) saving.reset();
  };
  const live = violationsOf(verdict.error);
  const refused = violationsOf(saving.error).filter((found) =>
    live.every((other) => other.path !== found.path),
  );
  const findings = mistakes.length > 0 ? mistakes : [...live, ...refused];
  const isCurrent = !verdict.isFetching && JSON.stringify(written) === asked;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <Frame
        scope={scope}
        read={read}
        effective={effective}
        isDirty={isDirty}
        actions={read && <DangerButton onClick={() => setDeleting(true)}>Delete</DangerButton>}
        side={
          <VerdictView
            verdict={verdict.error ? undefined : verdict.data}
            mistakes={findings}
            error={otherThanMistakes(verdict.error)}
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
                    href="#verdict"
                    fz="inherit"
                    c="light-dark(var(--mantine-color-red-9), var(--mantine-color-red-4))"
                  >
                    {findings.length === 1 ? "1 thing is wrong" : `${findings.length} things are wrong`}
                  </Anchor>
                ) : (
                  verdict.data && (
                    <Anchor href="#verdict" fz="inherit" c="dimmed">
                      {summarise(verdict.data)}
                    </Anchor>
                  )
                )}
              </Text>
              <Group gap="xs">
                <Button variant="default" disabled={!isDirty} onClick={() => begin(read)}>
                  Undo changes
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
          />
        </Findings>
      </Frame>
      <Leaving isDirty={isDirty} />
      {isDeleting && read && (
        <DeleteDialog
          read={read}
          force={Boolean(read.managed_by)}
          onClose={() => setDeleting(false)}
          onDeleted={() => navigate("/policies")}
        />
      )}
      {isConflict && written && (
        <ConflictDialog
          load={() => loadPolicy(scope)}
          baseRevision={read?.revision}
          compare={(theirs) => ({ theirs: theirs?.content ?? {}, mine: written })}
          onKeepEditing={saving.reset}
          onTakeTheirs={begin}
          onSaveMine={(theirs) => {
            setRead(theirs);
            save(theirs);
          }}
        />
      )}
    </form>
  );
}

/** The verdict on the newest draft. One is asked for at a time: many compute resources take the server seconds. */
function useLatestVerdict(scope: string, draft: string | null) {
  const [asked, setAsked] = useState(draft);
  const verdict = useVerdict(scope, asked ? JSON.parse(asked) : null);
  useEffect(() => {
    if (!verdict.isFetching) setAsked(draft);
  }, [draft, verdict.isFetching]);
  return { asked, verdict };
}

/** What would be sent, or why nothing can be. */
function tryWrite(draft: PolicyDraft, content?: Tree): { written: Tree | null; mistakes: Finding[] } {
  const mistakes = findMistakes(draft);
  if (mistakes.length > 0) return { written: null, mistakes };
  return tryWriting("defaults", () => writePolicy(draft, content));
}
