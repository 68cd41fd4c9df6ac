/** Calls hooks without a browser. React renders each hook once, as on a server, and effects do not run. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToString } from "react-dom/server";
import { vi } from "vitest";
import { Router } from "wouter";

/** A fake location that hooks can read and change. */
export class TestLocation {
  constructor(public address: string) {}

  get search(): string {
    return this.address.split("?")[1] ?? "";
  }

  readonly hook = (): [string, (address: string) => void] => [
    this.address.split("?")[0]!,
    (address) => {
      this.address = address;
    },
  ];

  readonly searchHook = (): string => this.search;
}

interface HookContext {
  queries?: QueryClient;
  location?: TestLocation;
}

/** Returns the result of a hook, given the cached responses in `queries`. Call it again to see changes. */
export function callHook<Result>(useHook: () => Result, context: HookContext = {}): Result {
  const { queries = new QueryClient(), location = new TestLocation("/") } = context;
  const results: Result[] = [];
  function Caller() {
    results.push(useHook());
    return null;
  }
  renderToString(
    <QueryClientProvider client={queries}>
      <Router hook={location.hook} searchHook={location.searchHook}>
        <Caller />
      </Router>
    </QueryClientProvider>,
  );
  return results.at(-1)!;
}

/** A query client whose cache already contains the given lists, keyed by path. */
export function answerLists(lists: Record<string, unknown[]>): QueryClient {
  const queries = new QueryClient();
  for (const [path, items] of Object.entries(lists)) queries.setQueryData([path, {}, "all", {}], items);
  return queries;
}

/** Replaces the browser's local storage until the test ends. */
export function stubStorage(values: Record<string, unknown> = {}): Map<string, string> {
  const stored = new Map(Object.entries(values).map(([key, value]) => [key, JSON.stringify(value)]));
  const localStorage = {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => void stored.set(key, value),
    removeItem: (key: string) => void stored.delete(key),
  };
  vi.stubGlobal("window", { ...window, localStorage, dispatchEvent: () => true });
  return stored;
}
