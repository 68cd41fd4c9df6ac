import { useEffect, useReducer, useState } from "react";
import { expired } from "../../../../api/sessions";
import { LogStream } from "./logStream";

/** Streams the log of a run. The returned object is mutable, and the hook re-renders when it changes. */
export function useLog(id: string, attempt?: number): LogStream {
  const [, render] = useReducer((count: number) => count + 1, 0);
  const [log, setLog] = useState(() => new LogStream(id, attempt, render));
  const isExpired = expired.use();
  useEffect(() => {
    if (isExpired) return;
    // Creates a new stream, because a stopped one may have been interrupted in the middle of an entry.
    const stream = new LogStream(id, attempt, render);
    setLog(stream);
    stream.start();
    return () => stream.stop();
  }, [id, attempt, isExpired]);
  return log;
}
