/** Assembles log lines from chunks of interleaved streams. Chunks can end anywhere in a line. */

export type Stream = "stdout" | "stderr" | "platform";

/** A log entry from the server. Contains `base64` if its bytes are not valid text, and `text` otherwise. */
export interface Entry {
  at: string;
  stream: Stream;
  cursor: number;
  text?: string;
  base64?: string;
}

export interface Line {
  /** Starts at 1. */
  number: number;
  at: string;
  stream: Stream;
  text: string;
  /** The number of characters cut off at the end. */
  cut: number;
}

/** Limits on lines and characters in memory. The oldest lines are dropped first. The download contains all lines. */
const MAX_LINES = 200_000;
const MAX_CHARACTERS = 64 * 1024 * 1024;
/** Lines are dropped in batches, because shortening the array for each line is slow. */
const SLACK = 20_000;
const MAX_LINE_LENGTH = 256 * 1024;

export class Lines {
  readonly items: Line[] = [];
  /** The total number of lines, including dropped ones. */
  count = 0;
  private characters = 0;
  private readonly open = new Map<Stream, Line>();
  private readonly decoders = new Map<Stream, TextDecoder>();

  get dropped(): number {
    return this.count - this.items.length;
  }

  /** The index of the first item that can still change. */
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
      this.items.push(line);
    }
    const before = line.text.length;
    const text = overwrite(line.text, piece);
    // A carriage return replaced the line, including the part that was cut off.
    if (text.length < before) line.cut = 0;
    line.text = text.slice(0, MAX_LINE_LENGTH);
    line.cut += text.length - line.text.length;
    this.characters += line.text.length - before;
  }

  private close(stream: Stream): void {
    const line = this.open.get(stream)!;
    if (line.text.endsWith("\r")) line.text = line.text.slice(0, -1);
    this.open.delete(stream);
  }

  /** Decodes an entry. Joins characters that are split between entries, and replaces invalid bytes. */
  private decode({ stream, text, base64 }: Entry): string {
    const decoder = this.decoders.get(stream);
    if (base64 === undefined) return (decoder?.decode() ?? "") + (text ?? "");
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const streamDecoder = decoder ?? new TextDecoder();
    this.decoders.set(stream, streamDecoder);
    return streamDecoder.decode(bytes, { stream: true });
  }

  private shorten(): void {
    if (this.items.length <= MAX_LINES + SLACK && this.characters <= MAX_CHARACTERS) return;
    let dropCount = Math.max(0, this.items.length - MAX_LINES);
    let characters = this.characters;
    for (let at = 0; at < this.items.length - 1; at++) {
      // Drops more than necessary, so that the next entries fit without dropping lines again.
      if (at >= dropCount && characters <= MAX_CHARACTERS * 0.9) break;
      characters -= this.items[at]!.text.length;
      dropCount = Math.max(dropCount, at + 1);
    }
    for (const line of this.items.splice(0, dropCount)) {
      if (this.open.get(line.stream) === line) this.open.delete(line.stream);
    }
    this.characters = characters;
  }
}

/** Appends a piece to a line. As in a terminal, text after "\r" replaces the line. */
function overwrite(text: string, piece: string): string {
  const start = text.endsWith("\r") && piece ? "" : text;
  const end = piece.endsWith("\r") ? piece.replace(/\r+$/, "") : piece;
  const back = end.lastIndexOf("\r");
  const shown = back < 0 ? start + end : end.slice(back + 1);
  return end === piece ? shown : `${shown}\r`;
}
