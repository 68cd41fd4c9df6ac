/** What a pod gets and what may kill it, in the server's sentences; and what is wrong, as a whole. */
import { List, Stack, Text, ThemeIcon } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconInfoCircle } from "@tabler/icons-react";
import type { Schemas } from "../../api/client";
import type { Finding } from "../../api/problems";
import { ErrorCard } from "../../shell/ErrorCard";
import { Card } from "../../shell/Page";
import { FindingList } from "../../shell/Problem";

type Sentence = Schemas["Sentence"];

const LOOKS: Record<string, { color: string; icon: typeof IconCheck; label: string }> = {
  gets: { color: "teal", icon: IconCheck, label: "Gets" },
  risk: { color: "orange", icon: IconAlertTriangle, label: "Risk" },
  note: { color: "gray", icon: IconInfoCircle, label: "Note" },
};

interface Props {
  sentences: Sentence[];
  warnings: Finding[];
  violations: Finding[];
  isCurrent: boolean;
}

export function Meaning({ sentences, warnings, violations, isCurrent }: Props) {
  return (
    <Stack gap="sm" aria-busy={!isCurrent}>
      <Card title="What a pod gets" isStale={!isCurrent}>
        <Sentences sentences={sentences} />
        {sentences.length === 0 && (
          <Text size="sm" c="dimmed">
            Nothing is said yet.
          </Text>
        )}
      </Card>
      {violations.length > 0 && <ErrorCard findings={violations} />}
      {warnings.length > 0 && (
        <Card title="Worth knowing">
          <FindingList findings={warnings} />
        </Card>
      )}
    </Stack>
  );
}

export function Sentences({ sentences }: { sentences: Sentence[] }) {
  return (
    <List
      spacing={8}
      size="sm"
      listStyleType="none"
      styles={{ itemWrapper: { alignItems: "flex-start" } }}
      aria-live="polite"
    >
      {sentences.map((told) => {
        const look = LOOKS[told.kind] ?? LOOKS.note!;
        return (
          <List.Item
            key={told.path + told.text}
            icon={
              <ThemeIcon
                size={18}
                radius="xl"
                variant="light"
                color={look.color}
                role="img"
                aria-label={look.label}
              >
                <look.icon size={12} />
              </ThemeIcon>
            }
          >
            {told.text}
          </List.Item>
        );
      })}
    </List>
  );
}
