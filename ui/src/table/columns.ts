/** The definition of a table column. */
import type { ReactNode } from "react";

/** How the values of a column are filtered (docs/reference/api.md, "Lists"). */
export type Kind = "text" | "keyword" | "number" | "time" | "boolean";

export interface Column<Item> {
  /** The API field to sort and filter by. */
  key: string;
  title: string;
  width: number;
  render: (item: Item) => ReactNode;
  /** Omit to disable filters on this column. */
  kind?: Kind;
  /** Suggested filter values. */
  options?: string[];
  /** Hidden by default. */
  isExtra?: boolean;
  isUnsorted?: boolean;
  align?: "right";
}

export const NONE = "–";
