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

export function showType(action: string): string {
  return TYPES[action] ?? action;
}

export function showState(state: string): { label: string; color: string } {
  return { label: state.charAt(0).toUpperCase() + state.slice(1), color: COLORS[state] ?? "blue" };
}
