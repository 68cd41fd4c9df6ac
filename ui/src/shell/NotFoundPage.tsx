import { Anchor, Stack, Text, Title } from "@mantine/core";
import { Link, useLocation } from "wouter";

export function NotFoundPage() {
  const [path] = useLocation();
  return (
    <Stack gap="xs" p="xl">
      <Title order={1}>There is no such page</Title>
      <Text c="dimmed">Nothing is at {path}.</Text>
      <Anchor component={Link} href="/runs">
        Go to the runs
      </Anchor>
    </Stack>
  );
}
