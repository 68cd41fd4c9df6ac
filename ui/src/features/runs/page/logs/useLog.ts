import { useEffect, useReducer, useState } from "react";
import { expired } from "../../../../api/sessions";
import { Following } from "./following";

/** The log of a run as it comes. It stays the same object; whoever uses it is drawn anew where there is more in it. */
export function useLog(id: string, attempt?: number): Following {
  const [, tell] = useReducer((count: number) => count + 1, 0);
  const [log, setLog] = useState(() => new Following(id, attempt, tell));
  const isExpired = expired.use();
  useEffect(() => {
    if (isExpired) return;
    // Of its own: what was stopped may have been left in the middle.
    const started = new Following(id, attempt, tell);
    setLog(started);
    started.start();
    return () => started.stop();
  }, [id, attempt, isExpired]);
  return log;
}
