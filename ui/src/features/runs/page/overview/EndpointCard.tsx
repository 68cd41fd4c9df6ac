/** The endpoint of a served run or a workspace. */
import { Anchor, Button, Code, Group, Text } from "@mantine/core";
import { IconExternalLink } from "@tabler/icons-react";
import type { Run } from "../../../../api/runs";
import { sentence } from "../../../../format/sentences";
import { CopyButton } from "../../../../shell/CopyButton";
import { Card } from "../../../../shell/Page";
import { ProblemAlert } from "../../../../shell/Problem";
import { useEndpoint, useOpen } from "../requests";

export function EndpointCard({ run }: { run: Run }) {
  const endpoint = useEndpoint(run);
  const opening = useOpen();
  if (!endpoint.data) return endpoint.error ? <ProblemAlert error={endpoint.error} /> : null;
  const { url, browser, ready, message } = endpoint.data;
  const open = () => {
    // Opens the tab during the click: browsers block popups that open later.
    const tab = window.open("about:blank", "_blank");
    // The run's page must not control this one. With the "noopener" option, window.open() would return no tab.
    if (tab) tab.opener = null;
    opening.mutate(run.id, {
      onSuccess: (link) => {
        if (tab) tab.location.href = link.url;
        else window.location.assign(link.url);
      },
      onError: () => tab?.close(),
    });
  };
  return (
    <Card
      title="Endpoint"
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
        {ready ? "Send an API token with each request. " : sentence(message)}
        {ready && (
          <Anchor href="/tokens" fz="inherit" underline="always">
            Manage tokens
          </Anchor>
        )}
        {ready && !browser && ` ${sentence(message)}`}
      </Text>
      <ProblemAlert error={opening.error} />
    </Card>
  );
}
