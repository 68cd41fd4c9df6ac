/** What somebody looks at: search, filters, order and columns. All of it is in the address, so that it can be shared. */
import { useLocalStorage } from "@mantine/hooks";
import { useEffect, useMemo } from "react";
import { useSearchParams } from "wouter";
import type { Column } from "./columns";

/** Parts of the address that are no filters. */
const OWN = ["search", "sort", "columns"];

export interface Filter {
  column: string;
  text: string;
}

export interface View {
  search: string;
  sort: string;
  filters: Filter[];
  columns: string[];
  /** What is asked of the server. */
  query: URLSearchParams;
  isNarrowed: boolean;
  setSearch: (text: string) => void;
  sortBy: (column: string) => void;
  addFilter: (filter: Filter) => void;
  removeFilter: (filter: Filter) => void;
  setColumns: (columns: string[]) => void;
  clear: () => void;
}

/** The view in the address. `name` is under what the choice of columns is remembered. */
export function useView<Item>(name: string, columns: Column<Item>[], defaultSort: string): View {
  const [params, setParams] = useSearchParams();
  const usual = columns.filter((column) => !column.isExtra).map((column) => column.key);
  const [remembered, remember] = useLocalStorage<string[] | null>({
    key: `fairlead.columns.${name}`,
    defaultValue: null,
    getInitialValueInEffect: false,
  });
  const known = new Set(columns.map((column) => column.key));
  // Whatever lies in the storage of the browser: only columns that there are.
  const kept = Array.isArray(remembered) ? remembered.filter((key) => known.has(key)) : null;
  const chosen =
    params
      .get("columns")
      ?.split(",")
      .filter((key) => known.has(key)) ??
    kept ??
    usual;

  // What is remembered is in the address, too: whoever gets it sees the same.
  const isMissing = kept !== null && !params.has("columns");
  useEffect(() => {
    if (isMissing) change((next) => next.set("columns", kept.join(",")));
  }, [isMissing]);

  const filters = [...params.entries()]
    .filter(([key]) => !OWN.includes(key))
    .map(([column, text]) => ({ column, text }));
  const asked = params.toString();
  const query = useMemo(() => {
    const wanted = new URLSearchParams(asked);
    wanted.delete("columns");
    if (!wanted.get("sort")) wanted.set("sort", defaultSort);
    return wanted;
  }, [asked, defaultSort]);
  const change = (edit: (next: URLSearchParams) => void) =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        edit(next);
        return next;
      },
      { replace: true },
    );

  return {
    search: params.get("search") ?? "",
    sort: params.get("sort") ?? defaultSort,
    filters,
    columns: chosen,
    query,
    isNarrowed: filters.length > 0 || params.has("search"),
    setSearch: (text) => change((next) => (text ? next.set("search", text) : next.delete("search"))),
    sortBy: (column) =>
      change((next) =>
        next.set("sort", (params.get("sort") ?? defaultSort) === column ? `-${column}` : column),
      ),
    addFilter: ({ column, text }) => change((next) => next.append(column, text)),
    removeFilter: ({ column, text }) => change((next) => next.delete(column, text)),
    setColumns: (keys) => {
      const isUsual = keys.length === usual.length && keys.every((key) => usual.includes(key));
      remember(isUsual ? null : keys);
      change((next) => (isUsual ? next.delete("columns") : next.set("columns", keys.join(","))));
    },
    clear: () =>
      change((next) => {
        for (const key of [...next.keys()]) if (key !== "sort" && key !== "columns") next.delete(key);
      }),
  };
}
