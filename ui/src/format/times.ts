/** Times as people say them. */
const ABSOLUTE = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
const EXACT = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const STOPWATCH = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
});
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

/** To the second, for those who want to know when exactly. */
export function showMoment(moment: string): string {
  return EXACT.format(new Date(moment));
}

/** "21:10:13", of this day or another; of what comes fast, "21:10:13.633". */
export function showClock(moment: string, isFast = false): string {
  return (isFast ? STOPWATCH : CLOCK).format(new Date(moment));
}

/** "3 hours ago". */
export function showAge(moment: string, now: number = Date.now()): string {
  const seconds = (new Date(moment).getTime() - now) / 1000;
  const step = STEPS.find(([, size]) => Math.abs(seconds) >= size);
  // What was asked for as 30 days ends in 30, a moment later too.
  return step ? RELATIVE.format(Math.round(seconds / step[1]), step[0]) : "just now";
}
