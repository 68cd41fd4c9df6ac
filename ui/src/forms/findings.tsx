/** Shows each violation at its field: fields ask by their path, and what no field asked for is listed. */
import { createContext, type ReactNode, useContext } from "react";
import type { Finding } from "../api/problems";
import { sentence } from "../format/sentences";

const Found = createContext<{ findings: Finding[]; base: string }>({ findings: [], base: "" });

interface Props {
  findings: Finding[];
  children: ReactNode;
}

export function Findings({ findings, children }: Props) {
  return <Found.Provider value={{ findings, base: "" }}>{children}</Found.Provider>;
}

/** Fields inside are found below a path: "requirements", "defaults"; or where they are, with none. */
export function Below({ path, children }: { path: string; children: ReactNode }) {
  const { findings, base } = useContext(Found);
  return (
    <Found.Provider value={{ findings, base: path ? `${base}${path}.` : base }}>{children}</Found.Provider>
  );
}

/** What is wrong at a path and, unless `exact`, below it; undefined where nothing is. */
export function useFinding(): (path: string, how?: "exact") => string | undefined {
  const { findings, base } = useContext(Found);
  return (path, how) => {
    const whole = base + path;
    const here = findings.filter(
      (found) => found.path === whole || (how !== "exact" && found.path.startsWith(`${whole}.`)),
    );
    const told = here.map(
      (found) => sentence(found.message) + (found.hint ? ` ${sentence(found.hint)}` : ""),
    );
    return told.length > 0 ? [...new Set(told)].join(" ") : undefined;
  };
}
