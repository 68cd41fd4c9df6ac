"""Update the outputs of all golden stories: `make golden`. Review the difference before you commit it."""

from tests.golden import stories


def main() -> None:
    """Print the stories that changed."""
    changed = [story for story in stories.STORIES if stories.save(story)]
    for story in changed:
        print(f"changed: {story}")
    print(f"{len(stories.STORIES)} stories, {len(changed)} changed")


if __name__ == "__main__":
    main()
