/** Formats durations. */
const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

/** "under 0.1 s", "0.4 s", "12 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function showDuration(milliseconds: number): string {
  const seconds = Math.max(0, milliseconds / 1000);
  if (seconds < 0.1) return "under 0.1 s";
  // Round down, because rounding up could show 10.0 s.
  if (seconds < 10) return `${(Math.floor(seconds * 10) / 10).toFixed(1)} s`;
  const whole = Math.floor(seconds);
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return join(whole, MINUTE, "min", 1, "s");
  if (whole < DAY) return join(whole, HOUR, "h", MINUTE, "min");
  return join(whole, DAY, "d", HOUR, "h");
}

/** The duration between two times, or until now if the end is missing. */
export function showSpan(from: string, to: string | null | undefined, now: number): string {
  return showDuration((to ? Date.parse(to) : now) - Date.parse(from));
}

function join(seconds: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeUnit}${rest ? ` ${rest} ${smallUnit}` : ""}`;
}
