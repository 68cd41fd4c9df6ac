/** The view of a table: search, filters, sort order and columns. It is stored in the URL, so that it can be shared. */
import { useLocalStorage } from "@mantine/hooks";
import { useEffect, useMemo } from "react";
import { useSearchParams } from "wouter";
import type { Column } from "./columns";

/** Query parameters that are not filters. */
const RESERVED = ["search", "sort", "columns"];

export interface Filter {
  column: string;
  text: string;
}

export interface View {
  search: string;
  sort: string;
  filters: Filter[];
  columns: string[];
  /** The query for the API. */
  query: URLSearchParams;
  isNarrowed: boolean;
  setSearch: (text: string) => void;
  sortBy: (column: string) => void;
  addFilter: (filter: Filter) => void;
  removeFilter: (filter: Filter) => void;
  setColumns: (columns: string[]) => void;
  clear: () => void;
}

/** The view in the URL. `name` is part of the local storage key for the selected columns. */
export function useView<Item>(name: string, columns: Column<Item>[], defaultSort: string): View {
  const [params, setParams] = useSearchParams();
  const defaults = columns.filter((column) => !column.isExtra).map((column) => column.key);
  const [remembered, remember] = useLocalStorage<string[] | null>({
    key: `fairlead.columns.${name}`,
    defaultValue: null,
    // Read before the first render, so that the columns do not flicker.
    getInitialValueInEffect: false,
  });
  const known = new Set(columns.map((column) => column.key));
  // Local storage may contain anything, so keep only existing columns.
  const stored = Array.isArray(remembered) ? remembered.filter((key) => known.has(key)) : null;
  const chosen =
    params
      .get("columns")
      ?.split(",")
      .filter((key) => known.has(key)) ??
    stored ??
    defaults;

  // Add the stored columns to the URL, so that a shared link shows the same table.
  const isMissing = stored !== null && !params.has("columns");
  useEffect(() => {
    if (isMissing) change((next) => next.set("columns", stored.join(",")));
  }, [isMissing]);

  const filters = [...params.entries()]
    .filter(([key]) => !RESERVED.includes(key))
    .map(([column, text]) => ({ column, text }));
  const search = params.toString();
  const query = useMemo(() => {
    const apiQuery = new URLSearchParams(search);
    apiQuery.delete("columns");
    if (!apiQuery.get("sort")) apiQuery.set("sort", defaultSort);
    return apiQuery;
  }, [search, defaultSort]);
  const change = (edit: (next: URLSearchParams) => void) =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        edit(next);
        return next;
      },
      // Do not add a history entry, so that Back leaves the page.
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
      const isDefault = keys.length === defaults.length && keys.every((key) => defaults.includes(key));
      remember(isDefault ? null : keys);
      change((next) => (isDefault ? next.delete("columns") : next.set("columns", keys.join(","))));
    },
    clear: () =>
      change((next) => {
        for (const key of [...next.keys()]) if (key !== "sort" && key !== "columns") next.delete(key);
      }),
  };
}
