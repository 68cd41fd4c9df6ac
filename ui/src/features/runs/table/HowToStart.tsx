/** What to do where nothing has run yet: here, in Python, or in a terminal. */
import { Anchor, Code, Stack } from "@mantine/core";
import { Link } from "wouter";

export function HowToStart({ isMember }: { isMember: boolean }) {
  if (!isMember) return "Runs of your projects will stand here. Only members of a project submit runs there.";
  return (
    <Stack gap="xs" align="center">
      <span>
        Here:{" "}
        <Anchor component={Link} href="/new/run" fz="inherit" underline="always">
          New run
        </Anchor>
      </span>
      <span>
        In Python, with <Code>@project.function</Code> above it: <Code>train.run()</Code>
      </span>
      <span>
        In a terminal: <Code>fairlead run train.py:main --project default</Code>
      </span>
    </Stack>
  );
}
