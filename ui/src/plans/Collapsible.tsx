/** A titled section that is collapsed by default. */
import type { ReactNode } from "react";
import classes from "./Collapsible.module.css";

interface Props {
  title: string;
  children: ReactNode;
  isOpen?: boolean;
}

export function Collapsible({ title, children, isOpen }: Props) {
  return (
    <details className={classes.collapsible} open={isOpen}>
      <summary>{title}</summary>
      <div className={classes.content}>{children}</div>
    </details>
  );
}
