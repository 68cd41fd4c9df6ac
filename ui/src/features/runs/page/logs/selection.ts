/** Filters the lines of a log incrementally: a line is not examined again once it is complete. */
import { strip } from "./colors";
import type { Line, Lines, Stream } from "./lines";

export interface LogFilter {
  stream: Stream | "all";
  search: string;
  /** Whether to hide lines that do not match the search. */
  isOnlyMatches: boolean;
}

export class Selection {
  /** Indexes of the visible lines. Empty if all lines are visible. */
  private readonly indexes: number[] = [];
  /** Positions of matches among the visible lines. */
  readonly hits: number[] = [];
  /** The number of examined lines that can no longer change. */
  private examined = 0;
  private readonly dropped: number;
  private readonly search: string;

  constructor(
    private readonly lines: Lines,
    private readonly filter: LogFilter,
  ) {
    this.dropped = lines.dropped;
    this.search = filter.search.toLowerCase();
  }

  get count(): number {
    return this.isAll ? this.lines.items.length : this.indexes.length;
  }

  line(index: number): Line | undefined {
    return this.lines.items[this.isAll ? index : this.indexes[index]!];
  }

  /** Whether the selection is valid for these lines and this filter. Dropped lines invalidate it. */
  matches(lines: Lines, filter: LogFilter): boolean {
    return this.lines === lines && this.dropped === lines.dropped && this.filter === filter;
  }

  /** Examines new lines, and reexamines those that were incomplete. */
  extend(): void {
    if (this.isAll && !this.search) return;
    this.rewind();
    const { items, settled } = this.lines;
    for (let at = this.examined; at < items.length; at++) {
      const line = items[at]!;
      if (this.filter.stream !== "all" && line.stream !== this.filter.stream) continue;
      const isHit = this.search !== "" && strip(line.text).toLowerCase().includes(this.search);
      if (this.filter.isOnlyMatches && this.search && !isHit) continue;
      if (!this.isAll) this.indexes.push(at);
      if (isHit) this.hits.push(this.isAll ? at : this.indexes.length - 1);
    }
    this.examined = Math.min(settled, items.length);
  }

  private rewind(): void {
    while (this.indexes.length > 0 && this.indexes.at(-1)! >= this.examined) this.indexes.pop();
    const first = this.isAll ? this.examined : this.indexes.length;
    while (this.hits.length > 0 && this.hits.at(-1)! >= first) this.hits.pop();
  }

  private get isAll(): boolean {
    return this.filter.stream === "all" && !(this.filter.isOnlyMatches && this.search);
  }
}
