/** Times as people say them. */
const ABSOLUTE = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

export function showTime(moment: string): string {
  return ABSOLUTE.format(new Date(moment));
}

/** "3 hours ago". */
export function showAge(moment: string, now: number = Date.now()): string {
  const seconds = (new Date(moment).getTime() - now) / 1000;
  const step = STEPS.find(([, size]) => Math.abs(seconds) >= size);
  // What was asked for as 30 days ends in 30, a moment later too.
  return step ? RELATIVE.format(Math.round(seconds / step[1]), step[0]) : "just now";
}
