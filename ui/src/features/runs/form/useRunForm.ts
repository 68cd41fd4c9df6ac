/** A run while it is asked for: the draft and its project, what the server says of it, and how it is sent. */
import { useState } from "react";
import type { Suggestion } from "../../../api/plans";
import { violationsOf } from "../../../api/problems";
import { useSchedule, useSubmit } from "../../../api/runs";
import { runAddress } from "../../../shell/addresses";
import { notify } from "../../../shell/notices";
import { useNavigate } from "../../../shell/useNavigate";
import { follow, merge, nameOf, type RunDraft, readRun, tryWritingRun } from "./drafts";
import { useLook } from "./looks";
import { type Start, useLastProject } from "./starts";

/** Looked at before a function is chosen: that it is missing is told when it is sent. */
const UNNAMED = { name: "unnamed", command: ["true"] };
const MISSING = { path: "function", rule: "required", message: "choose what to run" };

export function useRunForm(start: Start) {
  const navigate = useNavigate();
  const [begun] = useState(() => readRun(start.request));
  const [draft, setDraft] = useState<RunDraft>(begun);
  const [project, setProject] = useState(start.project);
  const [, rememberProject] = useLastProject();
  // How often it could not be sent.
  const [missed, setMissed] = useState(0);
  const isScheduled = draft.cron.trim() !== "";
  const once = useSubmit();
  const again = useSchedule();
  const submitting = isScheduled ? again : once;

  const { written, mistakes } = tryWritingRun(draft);
  const name = nameOf(draft);
  const look = useLook(project, written && (name ? written : { ...written, function: UNNAMED }));
  const refused = violationsOf(submitting.error).filter(
    (found) => !look.violations.some((other) => other.path === found.path && other.rule === found.rule),
  );
  const missing = missed > 0 && !name ? [MISSING] : [];

  const change = (next: RunDraft) => {
    setDraft(next);
    // What was refused was another draft.
    if (submitting.error) submitting.reset();
  };
  const move = (next: string) => {
    setProject(next);
    rememberProject(next);
    if (submitting.error) submitting.reset();
  };
  const takeSuggestion = (way: Suggestion) => {
    if (!written) return;
    change(follow(draft, written, merge(written, way.change)));
    if (way.project) move(way.project);
    notify(`Changed: ${way.message}`);
  };
  const submit = () => {
    if (!written || !name) {
      setMissed(missed + 1);
      return;
    }
    rememberProject(project);
    const sent = { project, request: written };
    if (isScheduled) {
      again.mutate(sent, {
        onSuccess: (kept) => {
          notify(`Kept the schedule ${kept.name}`);
          navigate("/schedules");
        },
      });
      return;
    }
    once.mutate(sent, {
      onSuccess: (run) => {
        notify(`Submitted ${name}`);
        navigate(runAddress(run.id));
      },
    });
  };
  return {
    draft,
    change,
    project,
    move,
    name,
    /** What would be sent; nothing before it can be. */
    request: name ? written : null,
    look,
    findings: [...mistakes, ...look.violations, ...refused, ...missing],
    takeSuggestion,
    submit,
    isScheduled,
    isSubmitting: submitting.isPending,
    error: submitting.error,
    missed,
    isDirty: !submitting.isSuccess && JSON.stringify(draft) !== JSON.stringify(begun),
  };
}
