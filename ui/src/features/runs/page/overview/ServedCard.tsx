/** Where a served run or a workspace is reached. */
import { Anchor, Button, Code, Group, Text } from "@mantine/core";
import { IconExternalLink } from "@tabler/icons-react";
import type { Run } from "../../../../api/runs";
import { CopyButton } from "../../../../shell/CopyButton";
import { Card } from "../../../../shell/Page";
import { ProblemAlert } from "../../../../shell/Problem";
import { useOpening, useServed } from "../requests";

export function ServedCard({ run }: { run: Run }) {
  const served = useServed(run);
  const opening = useOpening();
  if (!served.data) return served.error ? <ProblemAlert error={served.error} /> : null;
  const { url, browser, ready, message } = served.data;
  const open = () => {
    // Now, while the click counts: what opens later is taken for an advertisement.
    const tab = window.open("about:blank", "_blank");
    if (tab) tab.opener = null;
    opening.mutate(run.id, {
      onSuccess: (opened) => {
        if (tab) tab.location.href = opened.url;
        else window.location.assign(opened.url);
      },
      onSettled: () => undefined,
    });
  };
  return (
    <Card
      title="Address"
      actions={
        browser && (
          <Button
            size="xs"
            leftSection={<IconExternalLink size={15} />}
            disabled={!ready}
            loading={opening.isPending}
            onClick={open}
          >
            Open
          </Button>
        )
      }
    >
      <Group gap="xs" wrap="nowrap">
        <Code style={{ overflowWrap: "anywhere" }}>{url}</Code>
        <CopyButton text={url} />
      </Group>
      <Text size="sm" c="dimmed" mt="xs">
        {ready ? "Programs send a token with each request. " : `${message}. `}
        {ready && (
          <Anchor href="/tokens" fz="inherit" underline="always">
            Tokens
          </Anchor>
        )}
        {ready && !browser && ` ${message}`}
      </Text>
      <ProblemAlert error={opening.error} />
    </Card>
  );
}
