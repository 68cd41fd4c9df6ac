/** What is there for those who look closer, behind one line. */
import type { ReactNode } from "react";
import classes from "./Folded.module.css";

interface Props {
  title: string;
  children: ReactNode;
  isOpen?: boolean;
}

export function Folded({ title, children, isOpen }: Props) {
  return (
    <details className={classes.folded} open={isOpen}>
      <summary>{title}</summary>
      <div className={classes.content}>{children}</div>
    </details>
  );
}
