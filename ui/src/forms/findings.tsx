/** Provides violations to form fields, which look them up by path. */
import { createContext, type ReactNode, useContext } from "react";
import type { Finding } from "../api/problems";
import { sentence } from "../format/sentences";

const FindingsContext = createContext<{ findings: Finding[]; base: string }>({ findings: [], base: "" });

interface Props {
  findings: Finding[];
  children: ReactNode;
}

export function Findings({ findings, children }: Props) {
  return <FindingsContext.Provider value={{ findings, base: "" }}>{children}</FindingsContext.Provider>;
}

/** Prepends a path, such as "requirements", to the paths of the fields inside. An empty path changes nothing. */
export function FieldPath({ path, children }: { path: string; children: ReactNode }) {
  const { findings, base } = useContext(FindingsContext);
  return (
    <FindingsContext.Provider value={{ findings, base: path ? `${base}${path}.` : base }}>
      {children}
    </FindingsContext.Provider>
  );
}

/** Returns a function that finds the error message at a path or, unless `how` is "exact", below it. */
export function useFinding(): (path: string, how?: "exact") => string | undefined {
  const { findings, base } = useContext(FindingsContext);
  return (path, how) => {
    const fullPath = base + path;
    const matches = findings.filter(
      (finding) => finding.path === fullPath || (how !== "exact" && finding.path.startsWith(`${fullPath}.`)),
    );
    const messages = matches.map(
      ({ message, hint }) => sentence(message) + (hint ? ` ${sentence(hint)}` : ""),
    );
    return messages.length > 0 ? [...new Set(messages)].join(" ") : undefined;
  };
}
