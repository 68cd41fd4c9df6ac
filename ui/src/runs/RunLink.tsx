import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";
import { shortId } from "../format/runs";
import { runAddress } from "../shell/addresses";

/** Links to a run by its function and short ID. */
export function RunLink({ run }: { run: { function: string; id: string } }) {
  return (
    <Anchor component={Link} href={runAddress(run.id)} fz="inherit" fw="inherit">
      {run.function}{" "}
      <Text span size="xs" c="dimmed" ff="monospace" fw={400}>
        {shortId(run.id)}
      </Text>
    </Anchor>
  );
}
