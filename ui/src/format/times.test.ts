import { describe, expect, it } from "vitest";
import { showAge, showClock, showMoment, showTime } from "./times";

const MOMENT = "2024-05-01T21:10:13.633Z";

it("shows a time to the minute", () => {
  expect(showTime(MOMENT)).toMatch(/^May 1, 2024, 9:10\sPM$/);
});

it("shows a moment to the second", () => {
  expect(showMoment(MOMENT)).toBe("May 1, 2024, 21:10:13");
});

it("shows the clock to the second or to the millisecond", () => {
  expect(showClock(MOMENT)).toBe("21:10:13");
  expect(showClock(MOMENT, true)).toBe("21:10:13.633");
});

describe("showAge", () => {
  const now = Date.parse("2024-05-31T12:00:00Z");
  const [minute, hour, day] = [60, 3_600, 86_400];

  it.each([
    [0, "just now"],
    [-59, "just now"],
    [59, "just now"],
    [-minute, "1 minute ago"],
    [-3 * hour, "3 hours ago"],
    [2 * hour, "in 2 hours"],
    [-day, "yesterday"],
    [day, "tomorrow"],
    [-6 * day, "6 days ago"],
    [30 * day - 1, "in 30 days"],
    [-60 * day, "2 months ago"],
    [-365 * day, "last year"],
    [3 * 365 * day, "in 3 years"],
  ])("shows a time that is %d seconds from now as %j", (seconds, text) => {
    expect(showAge(new Date(now + 1000 * seconds).toISOString(), now)).toBe(text);
  });
});
