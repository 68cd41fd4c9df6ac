/** How often a run was started, told by what happened to it. */
import type { RunEvent } from "../requests";

export interface Attempt {
  number: number;
  started: string;
  /** Nothing while it goes on. */
  ended: RunEvent | null;
}

const WAITING = "queued";
const FINAL = ["completed", "failed", "stopped"];

/** An attempt begins when a run gets a place, and ends when it has none any more. */
export function listAttempts(events: RunEvent[]): Attempt[] {
  const attempts: Attempt[] = [];
  let current: Attempt | null = null;
  for (const event of events) {
    const isOver = event.state === WAITING || FINAL.includes(event.state);
    if (current && isOver) {
      current.ended = event;
      current = null;
    } else if (!current && !isOver && event.state !== "stopping") {
      current = { number: attempts.length + 1, started: event.at, ended: null };
      attempts.push(current);
    }
  }
  return attempts;
}
