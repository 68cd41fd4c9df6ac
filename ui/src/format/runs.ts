/** Labels for the types and states of runs. */
const TYPES: Record<string, string> = { job: "Training", serve: "Inference", workspace: "Workspace" };
const COLORS: Record<string, string> = {
  running: "teal",
  completed: "teal",
  failed: "red",
  degraded: "orange",
  stopped: "gray",
  stopping: "gray",
};

export const ACTIONS = Object.keys(TYPES);
/** In the order of a run's lifecycle. */
export const STATES = [
  "queued",
  "pending",
  "starting",
  "running",
  "degraded",
  "stopping",
  "completed",
  "failed",
  "stopped",
];

/** Reasons for run states, suggested in filters. */
export const REASONS = [
  "Queued",
  "QuotaExceeded",
  "Unschedulable",
  "WaitingForTurn",
  "NeverFits",
  "NoExecutor",
  "StartDelayed",
  "ImagePullBackOff",
  "Retrying",
  "Running",
  "Ready",
  "NotReady",
  "CrashLoopBackOff",
  "StopRequested",
  "Stopped",
  "Idle",
  "Completed",
  "ExitCode",
  "OOMKilled",
  "DeadlineExceeded",
  "Evicted",
  "StartFailed",
  "SecretMissing",
  "NodeLost",
  "Lost",
];

export function showType(action: string): string {
  return TYPES[action] ?? action;
}

export function showState(state: string): { label: string; color: string } {
  return { label: state.charAt(0).toUpperCase() + state.slice(1), color: COLORS[state] ?? "blue" };
}

/** The end of an ID, which is enough to distinguish the runs of a function. */
export function shortId(id: string): string {
  return id.slice(-8);
}

/** "train 9b1a4c6e". */
export function shortName(run: { function: string; id: string }): string {
  return `${run.function} ${shortId(run.id)}`;
}
