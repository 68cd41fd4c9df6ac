/** Which lines of a log are shown, and which of them match what is searched for. What was looked at once is not again. */
import { strip } from "./colors";
import type { Line, Lines, Stream } from "./lines";

export interface Wanted {
  stream: Stream | "all";
  search: string;
  /** Whether lines that do not match are left out. */
  isOnlyMatches: boolean;
}

export class Selection {
  /** Places of the lines that are shown; where all are, none are listed. */
  private readonly places: number[] = [];
  /** Which of those that are shown match. */
  readonly hits: number[] = [];
  /** How many lines were looked at, and will not change. */
  private looked = 0;
  private readonly dropped: number;
  private readonly search: string;

  constructor(
    private readonly lines: Lines,
    private readonly wanted: Wanted,
  ) {
    this.dropped = lines.dropped;
    this.search = wanted.search.toLowerCase();
  }

  get count(): number {
    return this.isAll ? this.lines.kept.length : this.places.length;
  }

  line(index: number): Line | undefined {
    return this.lines.kept[this.isAll ? index : this.places[index]!];
  }

  /** Whether it is still of these lines: not where the oldest are gone. */
  isOf(lines: Lines, wanted: Wanted): boolean {
    return this.lines === lines && this.dropped === lines.dropped && this.wanted === wanted;
  }

  /** Look at what came since, and again at lines that were not whole. */
  extend(): void {
    if (this.isAll && !this.search) return;
    this.rewind();
    const { kept, settled } = this.lines;
    for (let at = this.looked; at < kept.length; at++) {
      const line = kept[at]!;
      if (this.wanted.stream !== "all" && line.stream !== this.wanted.stream) continue;
      const isHit = this.search !== "" && strip(line.text).toLowerCase().includes(this.search);
      if (this.wanted.isOnlyMatches && this.search && !isHit) continue;
      if (!this.isAll) this.places.push(at);
      if (isHit) this.hits.push(this.isAll ? at : this.places.length - 1);
    }
    this.looked = Math.min(settled, kept.length);
  }

  private rewind(): void {
    while (this.places.length > 0 && this.places.at(-1)! >= this.looked) this.places.pop();
    const first = this.isAll ? this.looked : this.places.length;
    while (this.hits.length > 0 && this.hits.at(-1)! >= first) this.hits.pop();
  }

  private get isAll(): boolean {
    return this.wanted.stream === "all" && !(this.wanted.isOnlyMatches && this.search);
  }
}
