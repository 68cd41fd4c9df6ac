import { describe, expect, it } from "vitest";
import { type Span, splitColors, strip } from "./colors";

const ESC = "\u001b";

describe("splitColors", () => {
  it.each<[string, string, Span[]]>([
    ["plain text", "plain", [{ text: "plain" }]],
    ["a color", `${ESC}[31mred${ESC}[0m plain`, [{ text: "red", color: 1 }, { text: " plain" }]],
    ["a bright color", `${ESC}[92mgreen`, [{ text: "green", color: 10 }]],
    ["an empty reset", `${ESC}[31mred${ESC}[m plain`, [{ text: "red", color: 1 }, { text: " plain" }]],
    [
      "the default color",
      `${ESC}[1;31ma${ESC}[39mb`,
      [
        { text: "a", color: 1, isBold: true },
        { text: "b", isBold: true },
      ],
    ],
    ["faint and underlined text", `${ESC}[2;4mx`, [{ text: "x", isFaint: true, isUnderlined: true }]],
    ["a supported color of the 256-color palette", `${ESC}[38;5;9mx`, [{ text: "x", color: 9 }]],
    ["a color of the 256-color palette with colons", `${ESC}[38:5:3mx`, [{ text: "x", color: 3 }]],
    ["an unsupported color of the 256-color palette", `${ESC}[38;5;200;1mx`, [{ text: "x", isBold: true }]],
    ["an RGB color", `${ESC}[38;2;1;2;3;4mx`, [{ text: "x", isUnderlined: true }]],
    ["a background", `${ESC}[48;5;1mx`, [{ text: "x" }]],
    [
      "other sequences",
      `${ESC}[2Ka${ESC}]0;title\u0007b${ESC}[1;1Hc`,
      [{ text: "a" }, { text: "b" }, { text: "c" }],
    ],
    ["an incomplete sequence", `a${ESC}[31`, [{ text: "a" }, { text: "[31" }]],
    ["control characters", `a\u0000b\u0008${ESC}[1mc\u007f`, [{ text: "ab" }, { text: "c", isBold: true }]],
    ["tabs", "a\tb", [{ text: "a\tb" }]],
  ])("splits %s", (_, text, spans) => {
    expect(splitColors(text)).toEqual(spans);
  });

  it("ends bold, faint and underlined text", () => {
    const [, last] = splitColors(`${ESC}[1;2;4ma${ESC}[22;24mb`);
    expect(last).toEqual({ text: "b", isBold: false, isFaint: false, isUnderlined: false });
  });
});

describe("strip", () => {
  it.each([`${ESC}[31mred${ESC}[0m plain`, `a\u0000b${ESC}[1mc`, "plain", `${ESC}]8;;https://a${ESC}\\link`])(
    "returns the text of the spans of %j",
    (text) => {
      const spans = splitColors(text).map((span) => span.text);
      expect(strip(text)).toBe(spans.join(""));
      expect(strip(text)).not.toContain(ESC);
    },
  );
});
