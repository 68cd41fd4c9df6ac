/** The current time, for durations that increase while they are displayed. */
import { useEffect, useState } from "react";

const INTERVAL_MS = 1000;

/** The current time, updated every second if `isTicking` is true. */
export function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    setNow(Date.now());
    if (!isTicking) return;
    const timer = setInterval(() => setNow(Date.now()), INTERVAL_MS);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}
