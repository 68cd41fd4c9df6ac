/** Summary of each pod's resources and risks, followed by errors and warnings. */
import { List, Stack, Text, ThemeIcon } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconInfoCircle } from "@tabler/icons-react";
import type { Schemas } from "../../api/client";
import type { Finding } from "../../api/problems";
import { ErrorCard } from "../../shell/ErrorCard";
import { Card } from "../../shell/Page";
import { FindingList } from "../../shell/Problem";

type Sentence = Schemas["Sentence"];

const STYLES: Record<string, { color: string; icon: typeof IconCheck; label: string }> = {
  gets: { color: "teal", icon: IconCheck, label: "Allocation" },
  risk: { color: "orange", icon: IconAlertTriangle, label: "Risk" },
  note: { color: "gray", icon: IconInfoCircle, label: "Note" },
};

interface Props {
  sentences: Sentence[];
  warnings: Finding[];
  violations: Finding[];
  isCurrent: boolean;
}

export function PodSummary({ sentences, warnings, violations, isCurrent }: Props) {
  return (
    <Stack gap="sm" aria-busy={!isCurrent}>
      <Card title="What each pod gets" isStale={!isCurrent}>
        <SentenceList sentences={sentences} />
        {sentences.length === 0 && (
          <Text size="sm" c="dimmed">
            No values set yet.
          </Text>
        )}
      </Card>
      {violations.length > 0 && <ErrorCard findings={violations} />}
      {warnings.length > 0 && (
        <Card title="Warnings">
          <FindingList findings={warnings} />
        </Card>
      )}
    </Stack>
  );
}

function SentenceList({ sentences }: { sentences: Sentence[] }) {
  return (
    <List
      spacing={8}
      size="sm"
      listStyleType="none"
      styles={{ itemWrapper: { alignItems: "flex-start" } }}
      aria-live="polite"
    >
      {sentences.map((sentence) => {
        const style = STYLES[sentence.kind] ?? STYLES.note!;
        return (
          <List.Item
            key={sentence.path + sentence.text}
            icon={
              <ThemeIcon
                size={18}
                radius="xl"
                variant="light"
                color={style.color}
                role="img"
                aria-label={style.label}
              >
                <style.icon size={12} />
              </ThemeIcon>
            }
          >
            {sentence.text}
          </List.Item>
        );
      })}
    </List>
  );
}
