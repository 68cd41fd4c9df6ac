/** Explains how to start the first run: in the web UI, in Python or in a terminal. */
import { Anchor, Code, Stack } from "@mantine/core";
import { Link } from "wouter";

export function HowToStart({ isMember }: { isMember: boolean }) {
  if (!isMember) return "Runs from your projects will appear here.";
  return (
    <Stack gap="xs" align="center">
      <span>
        Here:{" "}
        <Anchor component={Link} href="/new/run" fz="inherit" underline="always">
          New run
        </Anchor>
      </span>
      <span>
        In Python, for a function decorated with <Code>@project.function</Code>: <Code>train.run()</Code>
      </span>
      <span>
        In a terminal: <Code>fairlead run train.py:main --project default</Code>
      </span>
    </Stack>
  );
}
