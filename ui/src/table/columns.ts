/** What a table knows of a column. */
import type { ReactNode } from "react";

/** How the values of a column are filtered; the words are those of the API (docs/reference/api.md, "Lists"). */
export type Kind = "text" | "word" | "number" | "time" | "flag";

export interface Column<Item> {
  /** The column of the API: what is sorted and filtered by. */
  key: string;
  title: string;
  width: number;
  render: (item: Item) => ReactNode;
  /** Left out: nobody can filter by it. */
  kind?: Kind;
  /** Words to choose from, where they are known. */
  options?: string[];
  /** Not shown until somebody chooses it. */
  isExtra?: boolean;
  isUnsorted?: boolean;
  align?: "right";
}

export const NONE = "–";
