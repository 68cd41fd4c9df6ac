/** Sections of a policy as text, with the source scope of each line. */
import { Anchor, List, Stack, Text, Title } from "@mantine/core";
import { Link } from "wouter";
import { policyAddress } from "../../shell/addresses";
import classes from "./Policy.module.css";
import type { SummaryLine, SummarySection } from "./summary";

interface Props {
  sections: SummarySection[];
  /** The page's scope. If missing, lines do not show their source scope. */
  currentScope?: string;
}

export function PolicySummary({ sections, currentScope }: Props) {
  return (
    <Stack gap="md">
      {sections.map((section) => (
        <section key={section.title} aria-label={section.title}>
          <Title order={3} fz="sm" mb={2}>
            {section.title}
          </Title>
          {section.note && (
            <Text size="xs" c="dimmed" mb={2}>
              {section.note}
            </Text>
          )}
          <List listStyleType="none" className={classes.lines}>
            {section.lines.map((line) => (
              <List.Item key={`${line.setting} ${line.text} ${line.scope}`}>
                <Line line={line} currentScope={currentScope} />
              </List.Item>
            ))}
          </List>
        </section>
      ))}
    </Stack>
  );
}

function Line({ line, currentScope }: { line: SummaryLine; currentScope?: string }) {
  return (
    <Text size="sm" component="span" className={classes.line} data-quiet={line.scope === null || undefined}>
      {line.setting && <b>{line.setting} </b>}
      {line.text}
      {currentScope !== undefined && <Origin scope={line.scope} currentScope={currentScope} />}
    </Text>
  );
}

function Origin({ scope, currentScope }: { scope: string | null; currentScope: string }) {
  if (scope === null) return <span className={classes.origin}>, default</span>;
  if (scope === currentScope) return <span className={classes.origin}>, set here</span>;
  return (
    <span className={classes.origin}>
      , from{" "}
      <Anchor component={Link} href={policyAddress(scope)} fz="inherit">
        {scope}
      </Anchor>
    </span>
  );
}
