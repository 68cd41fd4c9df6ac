/** Formats times. */
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

/** Date and time to the second. */
export function showMoment(moment: string): string {
  return EXACT.format(new Date(moment));
}

/** The time of day, "21:10:13"; with milliseconds, "21:10:13.633". */
export function showClock(moment: string, hasMilliseconds = false): string {
  return (hasMilliseconds ? STOPWATCH : CLOCK).format(new Date(moment));
}

/** "3 hours ago". */
export function showAge(moment: string, now: number = Date.now()): string {
  const seconds = (new Date(moment).getTime() - now) / 1000;
  const step = STEPS.find(([, size]) => Math.abs(seconds) >= size);
  // Round, so that an expiration in 30 days is still shown as 30 days a moment later.
  return step ? RELATIVE.format(Math.round(seconds / step[1]), step[0]) : "just now";
}
