import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";
import { shortId } from "../format/runs";
import { runAddress } from "../shell/addresses";

/** The function of a run and the end of its id, which lead to its page. */
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
