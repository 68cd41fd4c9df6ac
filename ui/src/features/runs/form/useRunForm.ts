/** State of the run form: draft, project, preview and submission. */
import { useState } from "react";
import type { Difference, Plan, Suggestion } from "../../../api/plans";
import { violationsOf } from "../../../api/problems";
import { useSchedule } from "../../../api/runs";
import { type Submission, useSubmit } from "../../../api/submissions";
import { runAddress } from "../../../shell/addresses";
import { notify } from "../../../shell/notices";
import { useNavigate } from "../../../shell/useNavigate";
import { merge, nameOf, type RunDraft, readRun, tryWritingRun, updateDraft } from "./drafts";
import { type InitialValues, useLastProject } from "./initialValues";
import { usePreviewState } from "./previewState";

/** Placeholder for previews without a function. A missing function is reported on submit. */
const PLACEHOLDER = { name: "unnamed", command: ["true"] };
const MISSING = { path: "function", rule: "required", message: "select a function" };

interface ChangedPlan {
  plan: Plan;
  differences: Difference[];
}

export function useRunForm(initialValues: InitialValues) {
  const navigate = useNavigate();
  const [initialDraft] = useState(() => readRun(initialValues.request));
  const [draft, setDraft] = useState<RunDraft>(initialDraft);
  const [project, setProject] = useState(initialValues.project);
  const [, rememberProject] = useLastProject();
  const [failedSubmits, setFailedSubmits] = useState(0);
  const [changedPlan, setChangedPlan] = useState<ChangedPlan | null>(null);
  const isScheduled = draft.cron.trim() !== "";
  const submission = useSubmit();
  const scheduling = useSchedule();
  const mutation = isScheduled ? scheduling : submission;

  const { request, errors } = tryWritingRun(draft);
  const name = nameOf(draft);
  const preview = usePreviewState(
    project,
    request && (name ? request : { ...request, function: PLACEHOLDER }),
  );
  // Omit violations that the preview already reports for the current values.
  const rejected = violationsOf(mutation.error).filter(
    ({ path, rule }) => !preview.violations.some((other) => other.path === path && other.rule === rule),
  );
  const missing = failedSubmits > 0 && !name ? [MISSING] : [];

  const change = (next: RunDraft) => {
    setDraft(next);
    // The error belongs to the previous draft.
    if (mutation.error) mutation.reset();
  };
  const move = (next: string) => {
    setProject(next);
    rememberProject(next);
    if (mutation.error) mutation.reset();
  };
  const applySuggestion = (suggestion: Suggestion) => {
    if (!request) return;
    change(updateDraft(draft, request, merge(request, suggestion.change)));
    if (suggestion.project) move(suggestion.project);
    notify(`Applied: ${suggestion.message}`);
  };
  const submit = () => {
    if (!request || !name) {
      setFailedSubmits(failedSubmits + 1);
      return;
    }
    rememberProject(project);
    const body = { project, request };
    if (isScheduled) {
      scheduling.mutate(body, {
        onSuccess: (schedule) => {
          notify(`Created schedule ${schedule.name}`);
          navigate("/schedules");
        },
      });
      return;
    }
    // A preview that does not belong to the current values yet was not seen by the user.
    send(preview.isCurrent ? preview.plan : undefined);
  };
  const send = (plan: Plan | undefined) => {
    if (!request) return;
    submission.mutate(
      { project, request, plan },
      { onSuccess: showSubmission, onError: () => setChangedPlan(null) },
    );
  };
  const showSubmission = (result: Submission) => {
    if (!("run" in result)) {
      setChangedPlan(result);
      return;
    }
    notify(`Submitted ${name}`);
    navigate(runAddress(result.run.id));
  };
  const closeChangedPlan = () => {
    setChangedPlan(null);
    preview.retry();
  };
  const isSubmitted = scheduling.isSuccess || (submission.data !== undefined && "run" in submission.data);
  return {
    draft,
    change,
    project,
    move,
    name,
    /** The request to submit. Null while the draft is incomplete or invalid. */
    request: name ? request : null,
    preview,
    findings: [...errors, ...preview.violations, ...rejected, ...missing],
    applySuggestion,
    submit,
    /** The plan that the server would use now, if it differs from the preview. */
    changedPlan,
    submitChangedPlan: () => changedPlan && send(changedPlan.plan),
    closeChangedPlan,
    isScheduled,
    isSubmitting: mutation.isPending,
    error: mutation.error,
    failedSubmits,
    isDirty: !isSubmitted && JSON.stringify(draft) !== JSON.stringify(initialDraft),
  };
}
