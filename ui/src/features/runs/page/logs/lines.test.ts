import { describe, expect, it } from "vitest";
import { type Entry, Lines, type Stream } from "./lines";

function write(lines: Lines, ...texts: string[]): Lines {
  for (const text of texts) lines.add(makeEntry(text));
  return lines;
}

function makeEntry(text: string, stream: Stream = "stdout"): Entry {
  return { at: "2024-05-01T12:00:00Z", stream, cursor: 0, text };
}

function textsOf(lines: Lines): string[] {
  return lines.items.map(({ text }) => text);
}

/** Creates an entry with a range of a text's bytes. */
function makeBytes(text: string, from: number, to?: number): Entry {
  const bytes = new TextEncoder().encode(text).slice(from, to);
  return { at: "", stream: "stdout", cursor: 0, base64: btoa(String.fromCharCode(...bytes)) };
}

describe("lines", () => {
  it.each([
    ["nothing", [], []],
    ["an empty text", [""], []],
    ["whole lines", ["a\nb\n"], ["a", "b"]],
    ["empty lines", ["\n\na\n"], ["", "", "a"]],
    ["an incomplete line", ["a\nb"], ["a", "b"]],
    ["pieces of one line", ["a", "b", "c\nd"], ["abc", "d"]],
    ["lines with carriage returns at their ends", ["a\r\nb\r\n"], ["a", "b"]],
    ["a carriage return and a line feed in two pieces", ["a\r", "\nb\n"], ["a", "b"]],
    ["a progress bar", ["10%\r20%\r100%\n"], ["100%"]],
    ["a progress bar in pieces", ["10%\r", "20%", "\r100%", "\n"], ["100%"]],
    ["an unfinished progress bar", ["10%\r20%\r"], ["20%\r"]],
  ])("are assembled from %s", (_, texts, lines) => {
    expect(textsOf(write(new Lines(), ...texts))).toEqual(lines);
  });

  it("of interleaved streams are separate, ordered by their first chunk", () => {
    const lines = new Lines();
    lines.add(makeEntry("out ", "stdout"));
    lines.add(makeEntry("err\n", "stderr"));
    lines.add(makeEntry("put\n", "stdout"));
    expect(lines.items.map(({ number, stream, text }) => [number, stream, text])).toEqual([
      [1, "stdout", "out put"],
      [2, "stderr", "err"],
    ]);
  });

  it("are settled up to the first one that may still change", () => {
    const lines = write(new Lines(), "a\n");
    expect(lines.settled).toBe(1);
    lines.add(makeEntry("b", "stdout"));
    lines.add(makeEntry("c\n", "stderr"));
    expect(lines.settled).toBe(1);
    write(lines, "\n");
    expect(lines.settled).toBe(3);
  });
});

describe("bytes", () => {
  it("are joined into characters across entries", () => {
    const lines = new Lines();
    lines.add(makeBytes("größe\n", 0, 3));
    lines.add(makeBytes("größe\n", 3));
    expect(textsOf(lines)).toEqual(["größe"]);
  });

  it("that are not text become replacement characters", () => {
    const lines = new Lines();
    lines.add(makeBytes("ö", 0, 1));
    lines.add(makeEntry("next\n"));
    expect(textsOf(lines)).toEqual(["\ufffdnext"]);
  });
});

describe("limits", () => {
  it("cut a line that is too long, and count the characters cut off", () => {
    const lines = write(new Lines(), "x".repeat(256 * 1024), "more", "\nnext\n");
    expect(lines.items[0]).toMatchObject({ cut: 4 });
    expect(lines.items[0]!.text).toHaveLength(256 * 1024);
    expect(lines.items[1]).toMatchObject({ text: "next", cut: 0 });
  });

  it("drop the oldest lines of a long log", () => {
    const lines = new Lines();
    for (let batch = 0; batch < 23; batch++) write(lines, "line\n".repeat(10_000));
    expect(lines.count).toBe(230_000);
    expect(lines.items).toHaveLength(lines.count - lines.dropped);
    expect(lines.dropped).toBeGreaterThan(0);
    expect(lines.items.length).toBeGreaterThanOrEqual(200_000);
    expect(lines.items.length).toBeLessThanOrEqual(220_000);
    expect(lines.items[0]!.number).toBe(lines.dropped + 1);
    expect(lines.settled).toBe(lines.items.length);
  });

  it("drop the oldest characters of a log with long lines", () => {
    const lines = new Lines();
    const line = `${"x".repeat(250 * 1024)}\n`;
    for (let number = 0; number < 300; number++) write(lines, line);
    const characters = lines.items.reduce((sum, { text }) => sum + text.length, 0);
    expect(characters).toBeLessThanOrEqual(64 * 1024 * 1024);
    expect(lines.dropped).toBeGreaterThan(0);
    expect(lines.items.at(-1)!.number).toBe(300);
  });
});
