from leafwise.cli import main

main()
