/** URLs of pages. Names may contain characters such as "+" that need escaping. */
import { useParams } from "wouter";
import { splitScope } from "../api/scopes";

export function policyAddress(scope: string): string {
  const { kind, name } = splitScope(scope);
  return `/policies/${kind}/${encodeURIComponent(name)}`;
}

export function secretsAddress(project: string): string {
  return `/secrets/${encodeURIComponent(project)}`;
}

export function runAddress(id: string): string {
  return `/runs/${id}`;
}

export function functionAddress(project: string, name: string): string {
  return `/functions/${encodeURIComponent(project)}/${encodeURIComponent(name)}`;
}

export function capacityAddress(cluster: string): string {
  return `/capacity?${new URLSearchParams({ cluster })}`;
}

/** The URL of the form for a new run, prefilled from a function, a template or an earlier run. */
export function newRunAddress(start: {
  project?: string;
  function?: string;
  template?: string;
  from?: string;
  mem?: string;
}): string {
  return `/new/run?${new URLSearchParams(start)}`;
}

/** The decoded route parameters. The router leaves reserved characters such as "%2B" encoded. */
export function useNames<Name extends string>(): Partial<Record<Name, string>> {
  const params = Object.entries(useParams<Record<string, string | undefined>>());
  return Object.fromEntries(params.map(([key, part]) => [key, part && decode(part)])) as Partial<
    Record<Name, string>
  >;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // The part contains an invalid escape sequence, for example a "%" that was typed by hand.
    return part;
  }
}
