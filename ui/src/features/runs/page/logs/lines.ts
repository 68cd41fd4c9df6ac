/** What a run wrote, as lines: put together from pieces that end anywhere, of streams that write at the same time. */

export type Stream = "stdout" | "stderr" | "platform";

/** One entry of a log, as the server tells it: some bytes, as text where they are any. */
export interface Entry {
  at: string;
  stream: Stream;
  cursor: number;
  text?: string;
  base64?: string;
}

export interface Line {
  /** From 1 on. */
  number: number;
  at: string;
  stream: Stream;
  text: string;
  /** How many characters were left out at its end. */
  cut: number;
}

/** Lines and characters that are kept; the oldest go first. All of it can be downloaded. */
const MOST_LINES = 200_000;
const MOST_CHARACTERS = 64 * 1024 * 1024;
/** How many go at once: to shorten the list for each line would take longer than to read it. */
const SLACK = 20_000;
const LONGEST_LINE = 256 * 1024;

export class Lines {
  readonly kept: Line[] = [];
  /** How many were there, those that are no longer kept among them. */
  count = 0;
  private characters = 0;
  private readonly open = new Map<Stream, Line>();
  private readonly decoders = new Map<Stream, TextDecoder>();

  /** How many of the oldest are no longer kept. */
  get dropped(): number {
    return this.count - this.kept.length;
  }

  /** The first line that may still change, as a place among those that are kept. */
  get settled(): number {
    const numbers = [...this.open.values()].map((line) => line.number);
    return Math.max(0, Math.min(this.count + 1, ...numbers) - 1 - this.dropped);
  }

  add(entry: Entry): void {
    const pieces = this.decode(entry).split("\n");
    const rest = pieces.pop()!;
    for (const piece of pieces) {
      this.extend(entry, piece);
      this.close(entry.stream);
    }
    if (rest) this.extend(entry, rest);
    this.shorten();
  }

  private extend({ stream, at }: Entry, piece: string): void {
    let line = this.open.get(stream);
    if (!line) {
      this.count += 1;
      line = { number: this.count, at, stream, text: "", cut: 0 };
      this.open.set(stream, line);
      this.kept.push(line);
    }
    const before = line.text.length;
    const text = overwrite(line.text, piece);
    if (text.length < before) line.cut = 0;
    line.text = text.slice(0, LONGEST_LINE);
    line.cut += text.length - line.text.length;
    this.characters += line.text.length - before;
  }

  private close(stream: Stream): void {
    const line = this.open.get(stream)!;
    if (line.text.endsWith("\r")) line.text = line.text.slice(0, -1);
    this.open.delete(stream);
  }

  /** Bytes that are no text become replacement characters, also where a character came in two pieces. */
  private decode({ stream, text, base64 }: Entry): string {
    const decoder = this.decoders.get(stream);
    if (base64 === undefined) return (decoder?.decode() ?? "") + (text ?? "");
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const used = decoder ?? new TextDecoder();
    this.decoders.set(stream, used);
    return used.decode(bytes, { stream: true });
  }

  private shorten(): void {
    if (this.kept.length <= MOST_LINES + SLACK && this.characters <= MOST_CHARACTERS) return;
    let gone = Math.max(0, this.kept.length - MOST_LINES);
    let left = this.characters;
    for (let at = 0; at < this.kept.length - 1; at++) {
      if (at >= gone && left <= MOST_CHARACTERS * 0.9) break;
      left -= this.kept[at]!.text.length;
      gone = Math.max(gone, at + 1);
    }
    for (const line of this.kept.splice(0, gone)) {
      if (this.open.get(line.stream) === line) this.open.delete(line.stream);
    }
    this.characters = left;
  }
}

/** A terminal goes back to the beginning of the line at "\r": what is written then stands instead. */
function overwrite(text: string, piece: string): string {
  const begun = text.endsWith("\r") && piece ? "" : text;
  const end = piece.endsWith("\r") ? piece.replace(/\r+$/, "") : piece;
  const back = end.lastIndexOf("\r");
  const shown = back < 0 ? begun + end : end.slice(back + 1);
  return end === piece ? shown : `${shown}\r`;
}
