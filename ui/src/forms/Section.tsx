/** A titled group of fields. Screen readers announce the title with each field. */
import { Stack, Text } from "@mantine/core";
import { type ReactNode, useId } from "react";
import classes from "./Section.module.css";

export function Section({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <Stack gap="xs" role="group" aria-labelledby={id} className={classes.section}>
      <Text id={id} size="sm" fw={620}>
        {title}
      </Text>
      {children}
    </Stack>
  );
}
