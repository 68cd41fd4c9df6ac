/** The result and output files of a run. */
import { Anchor, Stack, Table, Text } from "@mantine/core";
import type { Run } from "../../../api/runs";
import { showBytes } from "../../../format/amounts";
import { ScrolledTable } from "../../../format/ScrolledTable";
import { Time } from "../../../format/Time";
import { Loading } from "../../../shell/Loading";
import { Card } from "../../../shell/Page";
import { ProblemAlert } from "../../../shell/Problem";
import { ResultCard } from "./overview/ResultCard";
import { downloadAddress, type OutputFile, useFiles } from "./requests";

export function Files({ run }: { run: Run }) {
  const files = useFiles(run);
  return (
    <Stack>
      <ResultCard run={run} />
      <Card title="Files" about="Files written to $FAIRLEAD_OUTPUT.">
        {files.data ? (
          <FileTable run={run} files={files.data} />
        ) : files.error ? (
          <ProblemAlert error={files.error} onRetry={() => void files.refetch()} />
        ) : (
          <Loading />
        )}
      </Card>
    </Stack>
  );
}

function FileTable({ run, files }: { run: Run; files: OutputFile[] }) {
  if (files.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        {run.active ? "No files yet." : "No files."}
      </Text>
    );
  }
  return (
    <ScrolledTable minWidth={420} aria-label="Files">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Path</Table.Th>
          <Table.Th w={120} ta="right">
            Size
          </Table.Th>
          <Table.Th w={150}>Modified</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {files.map((file) => (
          <Table.Tr key={file.path}>
            <Table.Td style={{ overflowWrap: "anywhere" }}>
              <Anchor fz="sm" ff="monospace" href={downloadAddress(run.id, `files/${file.path}`)} download>
                {file.path}
              </Anchor>
            </Table.Td>
            <Table.Td className="number" ta="right">
              {showBytes(file.size)}
            </Table.Td>
            <Table.Td>
              <Time at={file.modified_at} />
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </ScrolledTable>
  );
}
