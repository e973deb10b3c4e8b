from tonne.apps.cli.main import main

main()
