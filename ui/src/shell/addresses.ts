/** Addresses of pages that are called by a name. Names of places may have a "+" in them. */
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

/** The capacity of one cluster. */
export function capacityAddress(cluster: string): string {
  return `/capacity?${new URLSearchParams({ cluster })}`;
}

/** The form of a run that begins with something: a function, a template, or what was asked for in an earlier run. */
export function newRunAddress(start: {
  project?: string;
  function?: string;
  template?: string;
  from?: string;
  mem?: string;
}): string {
  return `/new/run?${new URLSearchParams(start)}`;
}

/** The names in the address. The router leaves what has a meaning in addresses, such as "%2B", as it is. */
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
    // Somebody typed a "%" of their own.
    return part;
  }
}
