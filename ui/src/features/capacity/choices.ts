/** The selection on the capacity page. It is stored in the URL, so that it can be shared. */
import { useSearchParams } from "wouter";
import { type By, VIEWS } from "./shares";

export interface Choices {
  cluster: string | null;
  project: string | null;
  node: string | null;
  by: By | null;
  /** Updates the URL parameters. Null removes a parameter, and omitted parameters stay unchanged. */
  choose: (next: Partial<Record<"cluster" | "project" | "node" | "by", string | null>>) => void;
}

export function useChoices(): Choices {
  const [params, setParams] = useSearchParams();
  const by = VIEWS.find(({ value }) => value === params.get("by"));
  return {
    cluster: params.get("cluster"),
    project: params.get("project"),
    node: params.get("node"),
    by: by?.value ?? null,
    choose: (next) =>
      setParams(
        (before) => {
          const changed = new URLSearchParams(before);
          for (const [name, value] of Object.entries(next)) {
            if (value === null || value === undefined) changed.delete(name);
            else changed.set(name, value);
          }
          return changed;
        },
        // Do not add a history entry, so that Back leaves the page.
        { replace: true },
      ),
  };
}
