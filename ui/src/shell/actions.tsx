/** Buttons for what can be done to one thing: small and quiet, and red where it is gone afterwards. */
import { Button, type ButtonProps } from "@mantine/core";
import { type Icon, IconTrash } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { Link } from "wouter";

interface Props extends ButtonProps {
  icon: Icon;
  onClick: () => void;
  children: ReactNode;
}

export function ActionButton({ icon: Icon, ...button }: Props) {
  return <Button variant="default" size="xs" leftSection={<Icon size={15} />} {...button} />;
}

export function DangerButton(button: Omit<Props, "icon">) {
  return <ActionButton icon={IconTrash} c="var(--mantine-color-error)" {...button} />;
}

/** What is done on a page of its own. */
export function ActionLink({ icon: Icon, ...button }: Omit<Props, "onClick"> & { href: string }) {
  return <Button component={Link} variant="default" size="xs" leftSection={<Icon size={15} />} {...button} />;
}
