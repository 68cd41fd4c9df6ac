import { describe, expect, it } from "vitest";
import { showDuration, showSpan } from "./durations";

describe("showDuration", () => {
  it.each([
    [-5000, "under 0.1 s"],
    [0, "under 0.1 s"],
    [99, "under 0.1 s"],
    [100, "0.1 s"],
    [1_960, "1.9 s"],
    [3_000, "3.0 s"],
    [9_999, "9.9 s"],
    [10_000, "10 s"],
    [59_999, "59 s"],
    [60_000, "1 min"],
    [200_000, "3 min 20 s"],
    [3_599_999, "59 min 59 s"],
    [3_600_000, "1 h"],
    [7_500_000, "2 h 5 min"],
    [7_259_000, "2 h"],
    [86_400_000, "1 d"],
    [273_600_000, "3 d 4 h"],
  ])("shows %d milliseconds as %j", (milliseconds, text) => {
    expect(showDuration(milliseconds)).toBe(text);
  });
});

describe("showSpan", () => {
  const now = Date.parse("2024-05-01T12:01:00Z");

  it("counts to the end if there is one", () => {
    expect(showSpan("2024-05-01T12:00:00Z", "2024-05-01T12:00:20Z", now)).toBe("20 s");
  });

  it.each([null, undefined])("counts to now if the end is %j", (end) => {
    expect(showSpan("2024-05-01T12:00:00Z", end, now)).toBe("1 min");
  });

  it("does not show a negative duration if the server's clock is ahead", () => {
    expect(showSpan("2024-05-01T12:05:00Z", null, now)).toBe("under 0.1 s");
  });
});
