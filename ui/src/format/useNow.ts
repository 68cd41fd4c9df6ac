/** The time, for what grows as one looks at it. */
import { useEffect, useState } from "react";

const EVERY_MS = 1000;

/** The present moment; while it ticks, anew every second. */
export function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    setNow(Date.now());
    if (!isTicking) return;
    const timer = setInterval(() => setNow(Date.now()), EVERY_MS);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}
