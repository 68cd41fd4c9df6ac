/** What runs are called by people: the type of a workload, and how far it is. */
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
/** In the order in which a run has them. */
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

/** Words that say why, of those that there are for any executor and for Kubernetes. */
export const REASONS = [
  "Queued",
  "QuotaExceeded",
  "Unschedulable",
  "HeldBack",
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

/** The end of an id: enough to tell runs of a function apart. */
export function shortId(id: string): string {
  return id.slice(-8);
}

/** "train 9b1a4c6e". */
export function shortName(run: { function: string; id: string }): string {
  return `${run.function} ${shortId(run.id)}`;
}
