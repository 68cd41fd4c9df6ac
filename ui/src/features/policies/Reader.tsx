/** A policy for whoever may not change it, or should not. */
import { Alert, Button, Stack, Text } from "@mantine/core";
import { IconFileText, IconLock } from "@tabler/icons-react";
import { Card } from "../../shell/Page";
import { Frame } from "./Frame";
import type { EffectivePolicy, PolicyRecord } from "./requests";
import { Statements } from "./Statements";
import { listSaid } from "./statements";

interface Props {
  scope: string;
  read: PolicyRecord | null;
  effective: EffectivePolicy;
  /** For whoever may change it although files say what it is. */
  onChangeAnyway?: () => void;
}

export function Reader({ scope, read, effective, onChangeAnyway }: Props) {
  const chapters = listSaid(read?.content ?? {}, scope);
  return (
    <Frame
      scope={scope}
      read={read}
      effective={effective}
      notice={
        onChangeAnyway ? (
          <Alert color="gray" icon={<IconFileText size={18} />} title={`Managed by ${read?.managed_by}`}>
            <Stack gap="xs" align="flex-start">
              <Text size="sm">
                Change the files and apply them again. What is changed here holds only until then.
              </Text>
              <Button size="xs" variant="default" onClick={onChangeAnyway}>
                Change anyway
              </Button>
            </Stack>
          </Alert>
        ) : (
          <Alert color="gray" icon={<IconLock size={18} />}>
            Only editors of {scope} can change this.
          </Alert>
        )
      }
    >
      <Card title="What is said here">
        <Statements chapters={chapters} />
        {chapters.length === 0 && (
          <Text size="sm" c="dimmed">
            Nothing: what holds above holds here.
          </Text>
        )}
      </Card>
    </Frame>
  );
}
